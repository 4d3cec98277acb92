CREATE TABLE knowledge_staging (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    entry_type VARCHAR(50) NOT NULL,
    project_id UUID REFERENCES projects(id),
    agent_type VARCHAR(100) NOT NULL,
    task_type VARCHAR(100),
    technology VARCHAR(100),
    
    -- Failure fields
    failure_description TEXT,
    error_message TEXT,
    solution_steps TEXT,
    
    -- Gate rejection fields
    gate_type VARCHAR(50),
    human_feedback TEXT,
    revision_approach TEXT,
    
    -- Gate approval fields
    approved_approach TEXT,
    
    -- Metadata
    success_verified BOOLEAN DEFAULT FALSE,
    embedded BOOLEAN DEFAULT FALSE,
    timestamp TIMESTAMP DEFAULT NOW(),
    embedded_at TIMESTAMP,
    
    CHECK (
        (entry_type = 'failure_solution' AND failure_description IS NOT NULL) OR
        (entry_type = 'gate_rejection' AND gate_type IS NOT NULL) OR
        (entry_type = 'gate_approval' AND gate_type IS NOT NULL)
    )
);

CREATE INDEX idx_knowledge_staging_project ON knowledge_staging(project_id);
CREATE INDEX idx_knowledge_staging_embedded ON knowledge_staging(embedded);
